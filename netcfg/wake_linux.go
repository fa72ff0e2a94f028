package netcfg

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/mdlayher/ethtool"
)

// observeWakeOnLAN asks all drivers at once. A kernel without ethtool's netlink
// and a caller who is not root are told of none.
func (r *rtnl) observeWakeOnLAN(s *State) error {
	if r.ethtool == nil {
		return nil
	}
	all, err := r.ethtool.WakeOnLANs()
	if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list wake on LAN: %w", err)
	}
	words := map[ethtool.WOLMode]string{0: wakeOff, ethtool.Magic: wakeMagic}
	for _, w := range all {
		if l := s.link(w.Interface.Index); l != nil {
			l.WakeOnLAN = wakeOther
			if word, ok := words[w.Modes]; ok {
				l.WakeOnLAN = word
			}
		}
	}
	return nil
}

func (k *kernel) setWakeOnLAN(index int, word string) error {
	if k.nl.ethtool == nil {
		return errors.ErrUnsupported
	}
	modes := map[string]ethtool.WOLMode{wakeMagic: ethtool.Magic}
	return k.nl.ethtool.SetWakeOnLAN(ethtool.WakeOnLAN{Interface: ethtool.Interface{Index: index}, Modes: modes[word]})
}
