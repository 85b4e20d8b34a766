"""What people say of decisions afterwards: labels, queues to review, agreement, and sessions that are signed off."""
