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
	for _, s := range slices.Concat(deviceScenarios, bridgeScenarios) {
		t.Run(s.name, func(t *testing.T) { s.run(t, newKernelLab, killsInGuest) })
	}
}
