//go:build guest

package netcfg

import (
	"slices"
	"testing"
)

// The host may have no bonding, 8021q or dummy module; the guest has:
//
//	go build -o build/guestexec ./images/guestexec
//	CGO_ENABLED=0 go test -tags guest -exec "$PWD/build/guestexec" ./netcfg

func TestKernelDevices(t *testing.T) {
	for i, s := range slices.Concat(deviceScenarios, bridgeScenarios) {
		// A namespace with a bond costs the guest half a second: the kills of
		// the first scenarios, which have every kind of operation, must do.
		t.Run(s.name, func(t *testing.T) { s.run(t, newKernelLab, i < 2) })
	}
}
