package params

import "bytes"

// oemStrings returns the strings of all OEM Strings structures (SMBIOS 3.7,
// section 7.12, type 11) in a structure table as Linux shows it in
// /sys/firmware/dmi/tables/DMI. A torn table ends the list: firmware is not to
// be trusted, and what was read until there is still good.
//
// u-root's smbios package has no access to a type 11 structure's strings and
// gives up a whole table for one bad structure.
func oemStrings(table []byte) []string {
	const (
		header     = 4 // type, length of the formatted part, handle
		oem        = 11
		endOfTable = 127
	)
	var out []string
	for len(table) >= header {
		kind, length := table[0], int(table[1])
		if kind == endOfTable || length < header || length > len(table) {
			break
		}
		// The strings end with an empty one: "a\0b\0\0", or "\0\0" for none.
		text, rest, ok := bytes.Cut(table[length:], []byte{0, 0})
		if !ok {
			break
		}
		if kind == oem {
			for s := range bytes.SplitSeq(text, []byte{0}) {
				out = append(out, string(s))
			}
		}
		table = rest
	}
	return out
}
