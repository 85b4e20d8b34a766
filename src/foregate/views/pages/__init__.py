"""What an auditor sees of one session: view models, and templates in which no recorded text comes alive."""
