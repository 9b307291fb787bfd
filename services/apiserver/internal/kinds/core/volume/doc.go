// Package volume defines PersistentVolumes and PersistentVolumeClaims.
package volume
