package volume

import (
	"fmt"
	"math"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sources "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/source"
)

// Kubernetes' limits for the objects of storage drivers.
const (
	maxAttachmentMetadata = 256 << 10 // bytes of keys and values together
	maxErrorMessage       = 1024
	maxNodeID             = 256
	minTokenSeconds       = 10 * 60
	maxTokenSeconds       = 1 << 32
	minUpdatePeriod       = 10 // seconds
)

// Attachment validates the attachment of a volume to a node.
func Attachment(a *storagev1.VolumeAttachment) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&a.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path, from := field.NewPath("spec"), &a.Spec.Source
	errs = append(errs, sources.DriverName(a.Spec.Attacher, path.Child("attacher"))...)
	at := path.Child("source")
	switch name := from.PersistentVolumeName; {
	case from.InlineVolumeSpec == nil && name == nil:
		errs = append(errs, field.Required(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case from.InlineVolumeSpec != nil && name != nil:
		errs = append(errs, field.Forbidden(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name == nil:
		errs = append(errs, inlineSpec(from.InlineVolumeSpec, at.Child("inlineVolumeSpec"))...)
	case *name == "":
		errs = append(errs, field.Required(at.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	errs = append(errs, subdomain(a.Spec.NodeName, path.Child("nodeName"))...)
	if from.PersistentVolumeName != nil {
		errs = append(errs, subdomain(*from.PersistentVolumeName, at.Child("persistentVolumeName"))...)
	}
	return append(errs, attachmentStatus(&a.Status, field.NewPath("status"))...)
}

func attachmentStatus(s *storagev1.VolumeAttachmentStatus, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range s.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > maxAttachmentMetadata {
		errs = append(errs, field.TooLong(at.Child("attachmentMetadata"), "", maxAttachmentMetadata))
	}
	return append(append(errs, volumeError(s.AttachError, at.Child("attachError"))...), volumeError(s.DetachError, at.Child("detachError"))...)
}

func volumeError(e *storagev1.VolumeError, at *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if len(e.Message) > maxErrorMessage {
		errs = append(errs, field.TooLong(at.Child("message"), "", maxErrorMessage))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(at.Child("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}

// AttachmentUpdate validates an update of an attachment or of its status: its spec is immutable.
func AttachmentUpdate(a, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&a.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), Attachment(a)...)
	return append(errs, apivalidation.ValidateImmutableField(a.Spec, old.Spec, field.NewPath("spec"))...)
}

// Driver validates a CSI driver.
func Driver(d *storagev1.CSIDriver) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&d.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	s, at := &d.Spec, field.NewPath("spec")
	errs = append(errs, chosen(s.AttachRequired, at.Child("attachedRequired"))...) // Kubernetes uses this field name.
	errs = append(errs, chosen(s.PodInfoOnMount, at.Child("podInfoOnMount"))...)
	errs = append(errs, chosen(s.StorageCapacity, at.Child("storageCapacity"))...)
	policies := []storagev1.FSGroupPolicy{storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy}
	if s.FSGroupPolicy != nil && !slices.Contains(policies, *s.FSGroupPolicy) {
		errs = append(errs, field.NotSupported(at.Child("fsGroupPolicy"), *s.FSGroupPolicy, policies))
	}
	errs = append(errs, tokenRequests(s.TokenRequests, at.Child("tokenRequests"))...)
	modes := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	for _, mode := range s.VolumeLifecycleModes {
		if !slices.Contains(modes, mode) {
			errs = append(errs, field.NotSupported(at.Child("volumeLifecycleModes"), mode, modes))
		}
	}
	errs = append(errs, chosen(s.SELinuxMount, at.Child("seLinuxMount"))...)
	if period := s.NodeAllocatableUpdatePeriodSeconds; period != nil && *period < minUpdatePeriod {
		errs = append(errs, field.Invalid(at.Child("nodeAllocatableUpdatePeriodSeconds"), *period, "must be greater than or equal to 10 seconds"))
	}
	if s.ServiceAccountTokenInSecrets != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(at.Child("serviceAccountTokenInSecrets"), s.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return append(errs, chosen(s.PreventPodSchedulingIfMissing, at.Child("preventPodSchedulingIfMissing"))...)
}

// chosen requires a value, which defaulting sets.
func chosen(value *bool, at *field.Path) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func tokenRequests(requests []storagev1.TokenRequest, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, request := range requests {
		before := requests[:i]
		if slices.ContainsFunc(before, func(other storagev1.TokenRequest) bool { return other.Audience == request.Audience }) {
			errs = append(errs, field.Duplicate(at.Index(i).Child("audience"), request.Audience))
			continue
		}
		seconds, at := request.ExpirationSeconds, at.Index(i).Child("expirationSeconds")
		if seconds != nil && *seconds < minTokenSeconds {
			errs = append(errs, field.Invalid(at, *seconds, "may not specify a duration less than 10 minutes"))
		}
		if seconds != nil && *seconds > maxTokenSeconds {
			errs = append(errs, field.Invalid(at, *seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

// DriverUpdate validates an update of a CSI driver.
func DriverUpdate(d, old *storagev1.CSIDriver) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&d.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), Driver(d)...)
	at := field.NewPath("spec")
	errs = append(errs, apivalidation.ValidateImmutableField(d.Spec.AttachRequired, old.Spec.AttachRequired, at.Child("attachedRequired"))...)
	return append(errs, apivalidation.ValidateImmutableField(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, at.Child("volumeLifecycleModes"))...)
}

// Node validates a node's CSI drivers.
func Node(n *storagev1.CSINode) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	seen := map[string]bool{}
	for i, driver := range n.Spec.Drivers {
		at := field.NewPath("spec", "drivers").Index(i)
		errs = append(errs, sources.DriverName(driver.Name, at.Child("name"))...)
		errs = append(errs, sources.Required(driver.NodeID, at.Child("nodeID"))...)
		if len(driver.NodeID) > maxNodeID {
			errs = append(errs, field.Invalid(at.Child("nodeID"), driver.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID)))
		}
		if a := driver.Allocatable; a != nil && a.Count != nil && *a.Count < 0 {
			errs = append(errs, field.Invalid(at.Child("allocatable", "count"), int64(*a.Count), apivalidation.IsNegativeErrorMsg).WithOrigin("minimum"))
		}
		if seen[driver.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), driver.Name))
		}
		seen[driver.Name] = true
		errs = append(errs, topologyKeys(driver.TopologyKeys, at)...)
	}
	return errs
}

func topologyKeys(keys []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, key := range keys {
		errs = append(errs, sources.Required(key, at)...)
		if slices.Contains(keys[:i], key) {
			errs = append(errs, field.Duplicate(at, key))
		}
		for _, msg := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(at, key, msg))
		}
	}
	return errs
}

// NodeUpdate validates an update of a node's CSI drivers. Drivers may be added and removed; of an
// existing one only the number of volumes may change.
func NodeUpdate(n, old *storagev1.CSINode) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), Node(n)...)
	for _, was := range old.Spec.Drivers {
		for _, now := range n.Spec.Drivers {
			if now.Name == was.Name {
				now, was := now.DeepCopy(), was.DeepCopy()
				now.Allocatable, was.Allocatable = nil, nil
				errs = append(errs, apivalidation.ValidateImmutableField(now, was, field.NewPath("spec", "drivers"))...)
			}
		}
	}
	return errs
}

// StorageCapacity validates the capacity that a driver reports.
func StorageCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	return storageCapacity(c, false)
}

func storageCapacity(c *storagev1.CSIStorageCapacity, anyValue bool) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}
	errs = append(errs, metav1validation.ValidateLabelSelector(c.NodeTopology, options, field.NewPath("nodeTopology"))...)
	errs = append(errs, subdomain(c.StorageClassName, field.NewPath("storageClassName"))...)
	if c.Capacity != nil && c.Capacity.Cmp(resource.Quantity{}) < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), apivalidation.IsNegativeErrorMsg))
	}
	return errs
}

// StorageCapacityUpdate validates an update of a capacity. A topology whose values are malformed
// already may stay so.
func StorageCapacityUpdate(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	malformed := len(metav1validation.ValidateLabelSelector(old.NodeTopology, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
	errs := append(storageCapacity(c, malformed), apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	if !apiequality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology) {
		errs = append(errs, field.Invalid(field.NewPath("nodeTopology"), c.NodeTopology, apivalidation.FieldImmutableErrorMsg))
	}
	if c.StorageClassName != old.StorageClassName {
		errs = append(errs, field.Invalid(field.NewPath("storageClassName"), c.StorageClassName, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}
