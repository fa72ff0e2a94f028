package netcfg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A State can be saved and planned against later or elsewhere: a network that
// misbehaves can be mailed. The file is YAML, one line for each link, address
// and route, without what is zero.

// MarshalYAML is the saved form.
func (s State) MarshalYAML() (any, error) {
	type plain State
	var n yaml.Node
	if err := n.Encode(plain(s)); err != nil {
		return nil, err
	}
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i], n.Content[i+1]
		switch {
		case v.Kind == yaml.SequenceNode && len(v.Content) == 0,
			key.Value == "resolv" && s.ResolvConf == nil,
			key.Value == "sysctls" && s.Sysctls == nil:
			continue
		}
		if v.Kind == yaml.SequenceNode {
			for _, item := range v.Content {
				dropZero(item)
				item.Style = yaml.FlowStyle
			}
		}
		kept = append(kept, key, v)
	}
	n.Content = kept
	return &n, nil
}

// dropZero drops the fields of a structure that are zero. An option of a bond or
// bridge that is zero says something, and stays.
func dropZero(n *yaml.Node) {
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i], n.Content[i+1]
		if v.Kind == yaml.MappingNode && !slices.Contains([]string{"bond", "bridge", "bridgeport"}, key.Value) {
			dropZero(v)
		}
		if !isZero(v) {
			kept = append(kept, key, v)
		}
	}
	n.Content = kept
}

func isZero(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return len(n.Content) == 0
	}
	switch n.ShortTag() {
	case "!!str":
		return n.Value == ""
	case "!!int":
		return n.Value == "0"
	case "!!bool":
		return n.Value == "false"
	}
	return n.ShortTag() == "!!null"
}

// ReadState reads a saved State; file is its name in the error.
func ReadState(file string, text []byte) (State, error) {
	var s State
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	err := dec.Decode(&s)
	if errors.Is(err, io.EOF) {
		err = errors.New("is empty")
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return State{}, fmt.Errorf("read network state %s: %w", file, err)
	}
	return s, nil
}

// check refuses a state that no kernel can be in and that a plan would stumble
// over.
func (s State) check() error {
	index, name := map[int]bool{0: true}, map[string]bool{"": true}
	for _, l := range s.Links {
		if l.Index < 1 || index[l.Index] || name[l.Name] {
			return fmt.Errorf("link %q needs an index and a name of its own", l.Name)
		}
		index[l.Index], name[l.Name] = true, true
	}
	for _, a := range s.Addresses {
		if a.Link == 0 || !index[a.Link] || !a.Prefix.IsValid() {
			return fmt.Errorf("address %s: no link has index %d", a.Prefix, a.Link)
		}
	}
	for _, r := range s.Routes {
		if !index[r.Link] || !r.To.IsValid() {
			return fmt.Errorf("route to %s: no link has index %d", r.To, r.Link)
		}
	}
	return nil
}
