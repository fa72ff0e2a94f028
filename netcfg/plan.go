package netcfg

// Plan is the operations that turn have into want, in an order that the kernel
// accepts; none when have is what is wanted. It is pure and deterministic.
func Plan(want *Config, have State) []Op { return nil }
