// Package volumesource validates the sources of volumes, in pods and in persistent volumes.
package volumesource
