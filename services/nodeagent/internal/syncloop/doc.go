// Package syncloop is the node agent's main loop. It selects over everything that can make a pod
// need work: changes of the wanted state, of the containers and of probe results, and time. It
// hands each pod to the pod workers. The loop itself never blocks for long.
package syncloop
