"""What the binaries inside a wheel say of themselves: tier 2 of the matrix's proof."""
