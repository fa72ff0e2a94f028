//go:build guest && !soak

package netcfg

// killsInGuest is after which operations a try dies. A namespace with a bond
// costs the guest half a second, so here it is one in the middle of each start
// state; the soak has all.
func killsInGuest(op, of int) bool { return op == of/2 }
