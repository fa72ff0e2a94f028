package netcfg

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (l kernelLab) happen(t testing.TB, what event, link string) {
	t.Helper()
	var err error
	switch what {
	case altName:
		err = l.nl.write(bg, unix.RTM_NEWLINKPROP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_APPEND, ifInfo(l.index[link], 0, 0), func(ae *attrs) {
			ae.Nested(unix.IFLA_PROP_LIST, func(in *attrs) error {
				in.String(unix.IFLA_ALT_IFNAME, "bond0")
				return nil
			})
		})
	case unplug:
		var peer int
		if peer, err = l.indexOf("peer-" + link); err == nil {
			err = l.nl.write(bg, unix.RTM_NEWLINK, 0, ifInfo(peer, 0, unix.IFF_UP), none)
		}
	case move:
		err = l.thereAndBack(t, link)
	case checked:
		err = l.untilChecked(t, link)
	case optimistic:
		err = sysctlOf(link, "optimistic_dad", "1")
	case keepOnDown:
		err = sysctlOf(link, "keep_addr_on_down", "1")
	case allForbidRA:
		err = sysctlOf("all", "accept_ra", "0")
	case routeOfRA:
		err = l.nl.write(bg, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, rtMsg(Route{To: net4("::/0")}, protoRA), func(ae *attrs) {
			ae.Bytes(unix.RTA_GATEWAY, []byte{0: 0xfe, 1: 0x80, 15: 1})
			ae.Uint32(unix.RTA_OIF, uint32(l.index[link]))
			ae.Uint32(unix.RTA_PRIORITY, 512)
			ae.Uint32(unix.RTA_TABLE, mainTable)
		})
	case halfWayShut:
		// The kernel takes attributes in an order of its own, and keeps what it
		// did before the one that it refuses: no such master.
		err = l.setLink(bg, l.index[link], func(ae *attrs) {
			ae.Uint32(unix.IFLA_MTU, 1400)
			ae.Uint32(unix.IFLA_MASTER, 1<<20)
		})
		if err == nil {
			t.Fatal("a master that does not exist was taken")
		}
		err = nil
	default:
		t.Fatal(what)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", link, what, err)
	}
}

func sysctlOf(link, file, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", link, file), []byte(value), 0)
}

// thereAndBack moves the link to another namespace and back.
func (l kernelLab) thereAndBack(t testing.TB, link string) error {
	here, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(here)
	toNamespace := func(fd int) func(*attrs) {
		return func(ae *attrs) { ae.Uint32(unix.IFLA_NET_NS_FD, uint32(fd)) }
	}
	other := newNamespace(t)
	if err := l.setLink(bg, l.index[link], toNamespace(other.fd)); err != nil {
		return err
	}
	back := make(chan error)
	other.run <- func() {
		k, err := openKernel("")
		if err == nil {
			defer k.Close()
			var index int
			if index, err = k.indexOf(link); err == nil {
				err = k.setLink(bg, index, toNamespace(here))
			}
		}
		back <- err
	}
	if err := <-back; err != nil {
		return err
	}
	_, err = l.Observe(bg)
	return err
}

// untilChecked waits until the link has its link-local address and no address
// of the machine is tentative any more.
func (l kernelLab) untilChecked(t testing.TB, link string) error {
	ev := l.events(t)
	patience := time.After(10 * time.Second)
	for {
		s, err := l.Observe(bg)
		if err != nil {
			return err
		}
		left, own := 0, false
		for _, a := range s.Addresses {
			if a.Tentative {
				left++
			}
			own = own || a.Link == l.index[link] && a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
		}
		if left == 0 && own {
			return nil
		}
		select {
		case <-ev:
		case <-patience:
			return fmt.Errorf("%d addresses still tentative, link-local address of %s: %t", left, link, own)
		}
	}
}
