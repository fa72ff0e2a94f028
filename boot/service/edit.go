package service

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Without is the document without one of its services; comments stay. The
// result is to be parsed again: others may need what is gone.
func Without(document []byte, name string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(document, &doc); err != nil || len(doc.Content) == 0 {
		return nil, fmt.Errorf("remove service %s: the document cannot be read: %w", name, err)
	}
	services := valueOf(doc.Content[0], "services")
	for i := 0; services != nil && i+1 < len(services.Content); i += 2 {
		if services.Content[i].Value != name {
			continue
		}
		services.Content = append(services.Content[:i], services.Content[i+2:]...)
		var out bytes.Buffer
		e := yaml.NewEncoder(&out)
		e.SetIndent(2)
		if err := e.Encode(&doc); err != nil {
			return nil, fmt.Errorf("remove service %s: %w", name, err)
		}
		return out.Bytes(), nil
	}
	return nil, fmt.Errorf("remove service %s: the document does not define it", name)
}

// valueOf is the value of a key, through an alias.
func valueOf(m *yaml.Node, key string) *yaml.Node {
	for i := 0; m != nil && i+1 < len(m.Content); i += 2 {
		if v := m.Content[i+1]; m.Content[i].Value == key {
			if v.Kind == yaml.AliasNode {
				return v.Alias
			}
			return v
		}
	}
	return nil
}
