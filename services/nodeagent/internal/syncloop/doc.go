// Package syncloop is the node agent's heart: one loop that selects over everything that can
// make a pod need work (changes of what is wanted, of what runs, of what probes find, and
// time) and hands it to the pod workers. The loop itself does nothing that can block for long.
package syncloop
