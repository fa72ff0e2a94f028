package netcfg

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Places in IFLA_INET6_CONF (include/uapi/linux/ipv6.h, DEVCONF_*).
const (
	devconfForwarding  = 0
	devconfMTU         = 2
	devconfAcceptRA    = 3
	devconfUseTempAddr = 10
	devconfDisableIPv6 = 26
)

func (k *kernel) setToken(ctx context.Context, index int, token string) error {
	a, err := netip.ParseAddr(token)
	if err != nil {
		return err
	}
	return k.setLink(ctx, index, func(ae *attrs) {
		ae.Nested(unix.IFLA_AF_SPEC, func(in *attrs) error {
			in.Nested(unix.AF_INET6, func(inet6 *attrs) error {
				inet6.Bytes(unix.IFLA_INET6_TOKEN, a.AsSlice())
				return nil
			})
			return nil
		})
	})
}

// linkSysctls is the IPv6 settings of a link that are files, by our names.
var linkSysctls = map[string]string{
	"accept_ra":     "accept_ra",
	"addr_gen_mode": "addr_gen_mode",
	"disable_ipv6":  "disable_ipv6",
	"ipv6_mtu":      "mtu",
	"stable_secret": "stable_secret",
	"use_tempaddr":  "use_tempaddr",
}

// setSysctl writes a setting that is a file. Its path is built with slashes, so
// a dotted name like bond0.100 is one element of it.
func setSysctl(link string, s Setting) error {
	file, ok := linkSysctls[s.Name]
	if !ok {
		return fmt.Errorf("no setting %q", s.Name)
	}
	value := s.Value
	if s.Name == "stable_secret" {
		secret, err := stableSecret(link)
		if err != nil {
			return err
		}
		value = secret
	}
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", link, file), []byte(value+"\n"), 0)
}

// decodeInet6 reads the sysctls of the link as the kernel reports them with it,
// which saves opening a file for each.
func decodeInet6(l *LinkState, ad attribute) {
	l.NoIPv6 = false
	ad.nested(func(in attribute) {
		switch in.Type {
		case unix.IFLA_INET6_FLAGS:
			// IF_RA_MANAGED and IF_RA_OTHERCONF, include/net/if_inet6.h.
			flags := in.number()
			l.RAManaged, l.RAOther = flags&0x40 != 0, flags&0x80 != 0
		case unix.IFLA_INET6_ADDR_GEN_MODE:
			l.AddrGenMode = in.number()
		case unix.IFLA_INET6_TOKEN:
			if a, ok := netip.AddrFromSlice(in.data); ok && !a.IsUnspecified() {
				l.Token = a
			}
		case unix.IFLA_INET6_CONF:
			conf := in.data
			l.IPv6MTU = devconf(conf, devconfMTU)
			l.AcceptRA = devconf(conf, devconfAcceptRA)
			l.Forwarding = devconf(conf, devconfForwarding) != 0
			l.UseTempAddr = devconf(conf, devconfUseTempAddr)
			l.DisableIPv6 = devconf(conf, devconfDisableIPv6) != 0
		}
	})
}

func devconf(conf []byte, i int) int {
	if len(conf) < 4*i+4 {
		return 0
	}
	return int(int32(binary.NativeEndian.Uint32(conf[4*i:])))
}
