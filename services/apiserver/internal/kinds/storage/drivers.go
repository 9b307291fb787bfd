package storage

// Kubernetes' limits for the objects of storage drivers.
const (
	maxAttacher           = 63        // characters
	maxAttachmentMetadata = 256 << 10 // bytes of keys and values together
	maxErrorMessage       = 1024
	maxNodeID             = 256
	minTokenSeconds       = 10 * 60
	maxTokenSeconds       = 1 << 32
	minUpdatePeriod       = 10 // seconds
)
