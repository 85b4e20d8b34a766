"""What a person sees and types: rows, colours, questions, and text made safe to show."""
