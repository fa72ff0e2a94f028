//go:build guest

package netcfg

import (
	"fmt"
	"slices"
	"testing"
)

const (
	bondAndVLAN = `
ethernets: {eth0: {}, eth1: {}}
bonds: {bond0: {interfaces: [eth0, eth1], parameters: {mode: active-backup, mii-monitor-interval: 100}, %s}}
vlans: {v42: {id: 42, link: bond0, %s}}`
	farBridgeAndVLAN = `
bridges: {br: {interfaces: [peer-eth0, peer-eth1], parameters: {stp: false}, link-local: [ipv6], addresses: [%s]}}
vlans: {far42: {id: 42, link: br, link-local: [ipv6], addresses: [%s]}}`
)

func TestKernelRoutersOnBondAndVLAN(t *testing.T) {
	const listens = `accept-ra: true, ra-overrides: {use-domains: true}, addresses: [10.9.%d.1/24]`
	wish := fmt.Sprintf(bondAndVLAN, fmt.Sprintf(listens, 0)+`, nameservers: {addresses: [10.0.0.53]}`, fmt.Sprintf(listens, 1))
	routersSpeak(t, wish, []string{"bond0", "v42"}, []string{"br", "far42"}, func(w *watched, other *namespace) error {
		if err := cable(t, w, other); err != nil {
			return err
		}
		return other.far(t, fmt.Sprintf(farBridgeAndVLAN, "10.9.0.2/24", "10.9.1.2/24"))
	})
}

// Another machine has our addresses of a bond and of its vlan, while we
// forward: it is named, and what IPv4 does is none of its business.
func TestKernelDuplicatesOnBondAndVLAN(t *testing.T) {
	other := newNamespace(t)
	other.noDAD(t) // both sides at once would both lose
	wish := fmt.Sprintf(bondAndVLAN, `addresses: [10.9.0.1/24, "fd00:9::1/64"]`, `addresses: [10.9.1.1/24, "fd00:a::1/64"]`)
	opt := Options{Sysctls: []Sysctl{{Key: "net.ipv6.conf.all.forwarding", Value: "1"}}}
	watchWith(t, wish, opt, func(w *watched) error {
		var want []string
		return first(
			func() error { return cable(t, w, other) },
			func() error { return other.far(t, fmt.Sprintf(farBridgeAndVLAN, `"fd00:9::1/64"`, `"fd00:a::1/64"`)) },
			func() error {
				macs := make(chan [2]string)
				other.run <- func() { macs <- [2]string{macOf("br"), macOf("far42")} }
				for i, mac := range <-macs {
					want = append(want, fmt.Sprintf("another machine has %s (duplicate address detected), its MAC is %s", []string{"fd00:9::1", "fd00:a::1"}[i], mac))
				}
				return nil
			},
			func() error {
				return w.WaitFor(w.ctx, func(s Status) bool {
					var reasons []string
					for _, wait := range s.Waits {
						reasons = append(reasons, wait.Reason)
					}
					return slices.Equal(reasons, want) && len(s.Addresses) == 2 && s.Ready()
				})
			},
		)
	})
}
