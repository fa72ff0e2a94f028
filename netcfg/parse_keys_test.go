package netcfg

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
)

// keyLists is every list of keys of the schema, by the section of docs/netplan.md
// that describes it.
func keyLists() map[string]Keys {
	own := func(k Keys) Keys { // without what every kind has
		both := func(s string) bool { return slices.Contains(slices.Concat(commonKeys.Known, commonKeys.NotYet), s) }
		return Keys{slices.DeleteFunc(slices.Clone(k.Known), both), slices.DeleteFunc(slices.Clone(k.NotYet), both)}
	}
	return map[string]Keys{
		"network":                          topKeys,
		"All devices":                      commonKeys,
		"ethernets":                        own(ethernetKeys),
		"match":                            matchKeys,
		"bonds":                            own(bondKeys),
		"bonds: parameters":                bondParameterKeys(),
		"bridges":                          own(bridgeKeys),
		"bridges: parameters":              bridgeParameterKeys(),
		"vlans":                            own(vlanKeys),
		"addresses: options":               addressKeys,
		"nameservers":                      nameserverKeys,
		"routes":                           routeKeys,
		"routing-policy":                   ruleKeys,
		"dhcp4-overrides, dhcp6-overrides": dhcpKeys,
		"ra-overrides":                     raKeys,
	}
}

// The golden all-keys.txtar, which is right, has every key that is read: a key
// that only looks supported would be refused there.
func TestEveryKeyIsRead(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/check/all-keys.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(ar.Files[0].Data, &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				used[c.Value] = true
			}
			walk(c)
		}
	}
	walk(&doc)
	for section, keys := range keyLists() {
		for _, key := range keys.Known {
			other := legacyBondKeys[key] != "" || legacyBridgeKeys[key] != ""
			if !used[key] && !other {
				t.Errorf("%s: %s is not in all-keys.txtar", section, key)
			}
		}
	}
}

// keysDocument is for the reader of the project: the test holds it to the code.
const keysDocument = "../docs/netplan.md"

// documentedKeys is the rows of each section of the document: key -> what we do.
func documentedKeys(t *testing.T) map[string]map[string]string {
	text, err := os.ReadFile(keysDocument)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	section := ""
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
			out[section] = map[string]string{}
		}
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for key := range strings.SplitSeq(cells[1], ",") {
			out[section][strings.Trim(key, " `")] = strings.TrimSpace(cells[2])
		}
	}
	return out
}

// The document names every key that the parser knows, no other, and says of
// exactly those that are refused that they are.
func TestKeysAreDocumented(t *testing.T) {
	doc := documentedKeys(t)
	for section, keys := range keyLists() {
		rows := doc[section]
		for _, key := range slices.Concat(keys.Known, keys.NotYet) {
			what, ok := rows[key]
			never := slices.Contains(keys.NotYet, key)
			switch {
			case !ok:
				t.Errorf("%s, ## %s: no row for %s", keysDocument, section, key)
			case never != strings.HasPrefix(what, "refused"):
				t.Errorf("%s, ## %s: %s: %q, but refused by the parser: %v", keysDocument, section, key, what, never)
			}
		}
		for key := range rows {
			if !slices.Contains(keys.Known, key) && !slices.Contains(keys.NotYet, key) {
				t.Errorf("%s, ## %s: the parser has no key %s", keysDocument, section, key)
			}
		}
	}
}
