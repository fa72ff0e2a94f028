package netcfg

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// machineIDs is where a machine's identity is found, best first: what the
// system was given, else the board's own (readable by root only). Both outlive
// a new disk or a new image better than anything that we could store.
var machineIDs = []string{"/etc/machine-id", "/sys/class/dmi/id/product_uuid"}

// stableSecret is the key from which the kernel makes a link's interface
// identifiers (RFC 7217), as net.ipv6.conf.*.stable_secret wants it: written
// like an address. The same machine and link name give the same at every boot,
// and so the same addresses; nobody can tell the identity from it.
func stableSecret(link string) (string, error) {
	for _, file := range machineIDs {
		id, err := os.ReadFile(file)
		if id := strings.TrimSpace(string(id)); err == nil && id != "" {
			sum := sha256.Sum256([]byte("reveille stable_secret\n" + id + "\n" + link))
			return netip.AddrFrom16([16]byte(sum[:16])).String(), nil
		}
	}
	return "", fmt.Errorf("make a stable secret: this machine has no identity (%s)", strings.Join(machineIDs, ", "))
}
