package netcfg

import (
	"fmt"
	"strconv"
)

func bridgeData(ae *attrs, options []bridgeAttr, s Setting) error {
	o := attrNamed(options, s.Name)
	if o == nil {
		return fmt.Errorf("no bridge option %q", s.Name)
	}
	return number(ae, o.attr, o.size, s.Value)
}

func decodeBridge(l *LinkState, ad attribute) {
	var root, own string
	l.Bridge = decodeOptions(ad, bridgeAttrs, func(v attribute) {
		switch v.Type {
		case bridgeRootID:
			root = string(v.data)
		case bridgeID:
			own = string(v.data)
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
func decodeOptions(ad attribute, options []bridgeAttr, other func(attribute)) map[string]string {
	out := map[string]string{}
	ad.nested(func(v attribute) {
		o := attrOf(options, v.Type)
		switch {
		case o == nil && other != nil:
			other(v)
		case o != nil:
			out[o.name] = strconv.Itoa(v.number())
		}
	})
	return out
}
