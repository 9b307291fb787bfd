// Package storagemigration defines the kind of storagemigration.k8s.io, the StorageVersionMigration.
package storagemigration
