// Package storage defines the kinds of storage.k8s.io: classes, CSI drivers and attachments of volumes.
package storage
