"""What may ship: pure judgement over recorded arms."""
