package netcfg

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reveille/netcfg/dhcp4"
	"reveille/netcfg/dhcp6"
)

// kernelLeases is the clients' world on this machine.
func kernelLeases() leaseEnv {
	return leaseEnv{
		now:     sinceStart,
		listen4: dhcp4.Listen,
		listen6: dhcp6.Listen,
		hostname: func() string {
			name, err := os.Hostname()
			if err != nil || name == "localhost" || strings.HasPrefix(name, "(") {
				return "" // never set: the kernel's is "(none)"
			}
			return name
		},
		machine: func() string { return readFirst("/sys/class/dmi/id/product_uuid") },
	}
}

// Leased is the wish with the leases that a Reconciler left in the folder dir,
// for a plan that asks no server.
func (c *Config) Leased(dir string, have State) *Config {
	k := newKeeper(c, nil, kernelLeases(), leaseStore{dir, bootID()})
	return c.withLeases(k.saved(have), k.env.now())
}

// sinceStart counts while the machine sleeps, as a server's clock does.
func sinceStart() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

// bootID is the kernel's name for this boot.
func bootID() string { return readFirst("/proc/sys/kernel/random/boot_id") }

func readFirst(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
