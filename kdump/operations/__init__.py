"""What a user asks for, with its safety checks; each yields results, notes and problems."""
