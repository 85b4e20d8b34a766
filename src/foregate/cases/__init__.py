"""Testing a policy: cases are cut from recorded decisions, run, and looked for where no case notices a change."""
