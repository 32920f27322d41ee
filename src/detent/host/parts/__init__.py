"""What every host is made of: the rules of outcomes and claims, the fold, and the questions a journal answers."""
