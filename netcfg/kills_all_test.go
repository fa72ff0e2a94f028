//go:build guest && soak

package netcfg

func killsInGuest(int, int) bool { return true }
