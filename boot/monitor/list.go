package monitor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"reveille/boot/service"
)

// Bounds of what a service may say of itself: more is no answer.
const (
	maxBody = 1 << 20 // some 10,000 instances
	maxWord = 128     // bytes of an ID, a state, a server
)

// list is a service's answer to an Identity probe.
type list struct {
	Server     string
	Generation uint64             // of the list, for the long poll
	Instances  []service.Instance // by ID
}

func (l list) find(id string) (service.Instance, bool) {
	i, found := slices.BinarySearchFunc(l.Instances, id, func(i service.Instance, id string) int { return cmp.Compare(i.ID, id) })
	if !found {
		return service.Instance{}, false
	}
	return l.Instances[i], true
}

// parseList reads an answer strictly in what it must have, and overlooks what
// else is there: half an answer is no evidence of anything.
func parseList(body []byte) (list, error) {
	var raw struct {
		Server     string `json:"server"`
		Generation uint64 `json:"generation"`
		Instances  *[]struct {
			ID         string `json:"id"`
			Generation uint64 `json:"generation"`
			State      string `json:"state"`
		} `json:"instances"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return list{}, errors.New("not the JSON that an identity probe wants")
	}
	if raw.Instances == nil {
		return list{}, errors.New(`no list of "instances"`)
	}
	if !word(raw.Server) {
		return list{}, errors.New(`no name in "server"`)
	}
	l := list{Server: raw.Server, Generation: raw.Generation}
	for _, i := range *raw.Instances {
		if !word(i.ID) || i.State != "" && !word(i.State) {
			return list{}, errors.New("an instance without a usable id or state")
		}
		l.Instances = append(l.Instances, service.Instance{ID: i.ID, Generation: i.Generation, State: i.State})
	}
	slices.SortFunc(l.Instances, func(a, b service.Instance) int { return cmp.Compare(a.ID, b.ID) })
	for n := range l.Instances {
		if n > 0 && l.Instances[n].ID == l.Instances[n-1].ID {
			return list{}, fmt.Errorf("instance %s is listed twice", l.Instances[n].ID)
		}
	}
	return l, nil
}

// word tells whether s may stand in a log line and a table.
func word(s string) bool {
	return s != "" && len(s) <= maxWord && !strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsGraphic(r) })
}

// noInstance is the error code of VM servers for "I was given no instance".
const noInstance = "NoInstance"

// saysNoInstance tells whether an error's body says so with its code. Its text
// is for people and no evidence.
func saysNoInstance(body []byte) bool {
	var e struct {
		Code string `json:"error_code"`
	}
	return json.Unmarshal(body, &e) == nil && e.Code == noInstance
}
