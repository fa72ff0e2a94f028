//go:build !race

package synctest

const underRace = false
