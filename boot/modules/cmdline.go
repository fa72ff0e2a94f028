package modules

import "strings"

// SetCommandLine takes the parameters of modules out of the kernel's command
// line: "ramoops.mem_size=0x100000" is the module's, and the kernel itself reads
// only those of what is built in (modprobe(8) does the same). It is for modules
// that are loaded afterwards.
func (l *Loader) SetCommandLine(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.params = moduleParams(line)
}

// moduleParams is the parameters by module, as the kernel takes them. Names of
// modules and parameters mean the same with - and _; a value keeps its quotes,
// which the kernel reads.
func moduleParams(line string) map[string]string {
	params := map[string]string{}
	for _, word := range splitWords(line) {
		name, value, _ := strings.Cut(word, "=")
		module, param, ok := strings.Cut(name, ".")
		if !ok || module == "" || param == "" {
			continue
		}
		if strings.Contains(word, "=") {
			param += "=" + value
		}
		module = strings.ReplaceAll(module, "-", "_")
		params[module] = strings.TrimSpace(params[module] + " " + param)
	}
	return params
}

// splitWords splits at spaces outside double quotes (lib/cmdline.c, next_arg).
func splitWords(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
}
