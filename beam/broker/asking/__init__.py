"""What other processes ask of an agent, and how they wait for the answer."""
