package netcfg

import "go.yaml.in/yaml/v3"

// Parse compiles a netplan document, with or without its `network:` wrapper.
// The error is a Problems with everything wrong with it.
func Parse(file string, doc []byte) (*Config, error) { return nil, nil }

// ParseNode compiles the value of `network:` inside another document.
func ParseNode(file string, n *yaml.Node) (*Config, error) { return nil, nil }
