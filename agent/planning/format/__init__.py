"""What a plan is: reads it from text or JSON, and finds what is wrong with it before anybody is asked."""
