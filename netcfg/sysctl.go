package netcfg

import (
	"errors"
	"strings"
)

// Sysctl is one kernel setting as the node parameters have it. Key is either
// in dots (net.ipv4.conf.bond0.100.rp_filter) or in slashes
// (net/ipv4/conf/bond0.100/rp_filter), as sysctl(8) takes both.
type Sysctl struct{ Key, Value string }

// perLink are the places of the sysctl tree that have a folder for each
// interface (Documentation/networking/ip-sysctl.rst, mpls-sysctl.rst). Below
// it is one more element, so an interface's name may have dots in it.
var perLink = []string{"net/ipv4/conf/", "net/ipv6/conf/", "net/ipv4/neigh/", "net/ipv6/neigh/", "net/mpls/conf/"}

// Check reports what is wrong with the setting that can be known without a
// kernel.
func (s Sysctl) Check() error {
	path := s.path()
	switch {
	case path == "":
		return errors.New("the key is empty")
	case strings.Trim(path, "/.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:@+") != "":
		return errors.New("a key has letters, digits and _-.:@+/ only")
	case !strings.Contains(path, "/"):
		return errors.New("a key has two parts at least, such as net.ipv4.ip_forward")
	case s.Value == "" || strings.ContainsAny(s.Value, "\n\x00"):
		return errors.New("the value is not one line")
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("a part of the key is empty")
		}
	}
	return nil
}

// path is the setting's file below /proc/sys. Without a slash in the key every
// dot is one, but for those in the name of an interface.
func (s Sysctl) path() string {
	if strings.Contains(s.Key, "/") {
		return strings.TrimPrefix(s.Key, "/")
	}
	path := strings.ReplaceAll(s.Key, ".", "/")
	for _, folder := range perLink {
		rest, ok := strings.CutPrefix(path, folder)
		if !ok {
			continue
		}
		if i := strings.LastIndex(rest, "/"); i >= 0 {
			return folder + strings.ReplaceAll(rest[:i], "/", ".") + rest[i:]
		}
	}
	return path
}

// link is the interface that the setting is of, "" for none.
func (s Sysctl) link() string {
	path := s.path()
	for _, folder := range perLink {
		if rest, ok := strings.CutPrefix(path, folder); ok {
			name, _, _ := strings.Cut(rest, "/")
			if name != "all" && name != "default" {
				return name
			}
		}
	}
	return ""
}
