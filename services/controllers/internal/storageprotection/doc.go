// Package storageprotection keeps claims that pods use, volumes that are bound, and attributes classes
// that are in use from being deleted, by finalizers (kubernetes, pkg/controller/volume/pvcprotection,
// pvprotection and vacprotection). The admission plugin StorageObjectInUseProtection adds the finalizers
// to new objects; the controllers add missing ones, and remove them when nothing uses the object.
//
// It also maintains the condition Unused of bound claims (KEP-5541).
package storageprotection
