// Package network validates addresses and ports, for the kinds of several groups.
package network
