//go:build race

package synctest

const underRace = true
