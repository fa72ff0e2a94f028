package netcfg

import (
	"fmt"
	"strconv"

	"github.com/mdlayher/netlink"
)

func bridgeData(ae *netlink.AttributeEncoder, options []bridgeAttr, s Setting) error {
	o := attrNamed(options, s.Name)
	if o == nil {
		return fmt.Errorf("no bridge option %q", s.Name)
	}
	return number(ae, o.attr, o.size, s.Value)
}

func decodeBridge(l *LinkState, ad *netlink.AttributeDecoder) {
	var root, own string
	l.Bridge = decodeOptions(ad, bridgeAttrs, func(v *netlink.AttributeDecoder) {
		switch v.Type() {
		case bridgeRootID:
			root = string(v.Bytes())
		case bridgeID:
			own = string(v.Bytes())
		}
	})
	if root != own {
		for _, name := range rootTimers {
			delete(l.Bridge, name)
		}
	}
}

// decodeOptions reads the options of a bridge or a port; other, if not nil, is
// given the attributes that are none.
func decodeOptions(ad *netlink.AttributeDecoder, options []bridgeAttr, other func(*netlink.AttributeDecoder)) map[string]string {
	out := map[string]string{}
	nested(ad, func(v *netlink.AttributeDecoder) {
		o := attrOf(options, v.Type())
		switch {
		case o == nil && other != nil:
			other(v)
		case o == nil:
		case o.size == 1:
			out[o.name] = strconv.Itoa(int(v.Uint8()))
		case o.size == 2:
			out[o.name] = strconv.Itoa(int(v.Uint16()))
		default:
			out[o.name] = strconv.FormatUint(uint64(v.Uint32()), 10)
		}
	})
	return out
}
