package netcfg

import (
	"runtime"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// kernelLab is the real kernel in a network namespace of the test's own.
type kernelLab struct{ *kernel }

// newKernelLab moves the test's goroutine to a thread in a new namespace for
// good: the thread ends with the test, and the namespace with it.
func newKernelLab(t testing.TB) lab {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace (tests of the kernel run as root): %v", err)
	}
	k, err := openKernel("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return kernelLab{k}
}

// AddNIC makes a veth pair whose far end is up, which gives carrier.
func (l kernelLab) AddNIC(name, mac string) error {
	const vethInfoPeer = 1 // VETH_INFO_PEER, include/uapi/linux/veth.h
	peer := "peer-" + name
	err := l.nl.write(bg, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, ifInfo(0, 0, 0), func(ae *netlink.AttributeEncoder) {
		ae.String(unix.IFLA_IFNAME, name)
		ae.Bytes(unix.IFLA_ADDRESS, macBytes(mac))
		ae.Nested(unix.IFLA_LINKINFO, func(in *netlink.AttributeEncoder) error {
			in.String(unix.IFLA_INFO_KIND, "veth")
			in.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
				pe := netlink.NewAttributeEncoder()
				pe.String(unix.IFLA_IFNAME, peer)
				attrs, err := pe.Encode()
				if err != nil {
					return err
				}
				data.Bytes(vethInfoPeer, append(ifInfo(0, 0, 0), attrs...))
				return nil
			})
			return nil
		})
	})
	if err != nil {
		return err
	}
	index, err := l.indexOf(bg, peer)
	if err != nil {
		return err
	}
	return l.nl.write(bg, unix.RTM_NEWLINK, 0, ifInfo(index, unix.IFF_UP, unix.IFF_UP), none)
}

func TestKernelNICs(t *testing.T) {
	for _, s := range nicScenarios {
		t.Run(s.name, func(t *testing.T) { s.run(t, newKernelLab, true) })
	}
}
