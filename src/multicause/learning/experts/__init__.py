"""Products of experts: projection pursuit, joint descent, white data, and learning batch by batch."""
