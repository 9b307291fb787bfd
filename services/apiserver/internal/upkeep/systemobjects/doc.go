// Package systemobjects creates the objects that every cluster has, and creates them again when they
// are gone: the system namespaces, the system's priority classes, the objects with which an apiserver
// describes itself (priority levels and flow schemas), the default range of service addresses, and the Service `kubernetes`. It maintains the ConfigMaps that tell other API servers how
// this one authenticates clients, and since when the use of old tokens is tracked. It also repairs the
// records of the addresses and ports that services hold.
//
// It gives the Service `kubernetes` its address and port, and nothing behind them: the endpoints,
// and the Leases by which apiservers know each other, are package kubernetesservice's. Users may
// change what this package has created, except what admission or validation refuses.
package systemobjects
