package volumesource

import (
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxDriverName is the longest name of a CSI driver.
const maxDriverName = 63

// Required rejects an empty value.
func Required(value string, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// RequiredList rejects an empty list.
func RequiredList(values []string, at *field.Path) field.ErrorList {
	if len(values) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

// Label validates a name that must be a DNS label.
func Label(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

// Partition validates a partition number.
func Partition(number int32, at *field.Path) field.ErrorList {
	if number < 0 || number > 255 {
		return field.ErrorList{field.Invalid(at.Child("partition"), number, validation.InclusiveRangeError(1, 255))}
	}
	return nil
}

// DriverName validates the name of a CSI driver.
func DriverName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(at, "", maxDriverName))
	}
	for _, msg := range validation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

// Flocker validates a Flocker data set.
func Flocker(f *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if f.DatasetName == "" && f.DatasetUUID == "" {
		errs = append(errs, field.Required(at, "one of datasetName and datasetUUID is required"))
	}
	if f.DatasetName != "" && f.DatasetUUID != "" {
		errs = append(errs, field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(f.DatasetName, "/") {
		errs = append(errs, field.Invalid(at.Child("datasetName"), f.DatasetName, "must not contain '/'"))
	}
	return errs
}

// Quobyte validates a Quobyte volume.
func Quobyte(q *corev1.QuobyteVolumeSource, at *field.Path) field.ErrorList {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	var errs field.ErrorList
	switch {
	case q.Registry == "":
		errs = append(errs, field.Required(at.Child("registry"), pairs))
	case len(q.Tenant) > 64:
		errs = append(errs, field.Required(at.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(q.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(at.Child("registry"), q.Registry, pairs))
			}
		}
	}
	return append(errs, Required(q.Volume, at.Child("volume"))...)
}

// QualifiedSCSI reports whether a name has one of the three forms of iSCSI names.
func QualifiedSCSI(name string) bool {
	for prefix, form := range map[string]string{
		"iqn": `iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`,
		"eui": `^eui.[[:alnum:]]{16}$`,
		"naa": `^naa.[[:alnum:]]{32}$`,
	} {
		if strings.HasPrefix(name, prefix) {
			return regexp.MustCompile(form).MatchString(name)
		}
	}
	return false
}

// FibreChannel validates a Fibre Channel volume.
func FibreChannel(f *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(f.TargetWWNs) == 0 && len(f.WWIDs) == 0 {
		errs = append(errs, field.Required(at.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	}
	if len(f.TargetWWNs) > 0 && len(f.WWIDs) > 0 {
		errs = append(errs, field.Invalid(at.Child("targetWWNs"), f.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case len(f.TargetWWNs) == 0:
	case f.Lun == nil:
		errs = append(errs, field.Required(at.Child("lun"), "lun is required if targetWWNs is specified"))
	case *f.Lun < 0 || *f.Lun > 255:
		errs = append(errs, field.Invalid(at.Child("lun"), f.Lun, validation.InclusiveRangeError(0, 255)))
	}
	return errs
}

// AzureDisk validates an Azure disk.
func AzureDisk(d *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	errs := append(Required(d.DiskName, at.Child("diskName")), Required(d.DataDiskURI, at.Child("diskURI"))...)
	caching := []corev1.AzureDataDiskCachingMode{
		corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite,
	}
	if d.CachingMode != nil && !slices.Contains(caching, *d.CachingMode) {
		errs = append(errs, field.NotSupported(at.Child("cachingMode"), *d.CachingMode, caching))
	}
	if d.Kind == nil {
		return errs
	}
	kinds := []corev1.AzureDataDiskKind{corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk}
	if !slices.Contains(kinds, *d.Kind) {
		errs = append(errs, field.NotSupported(at.Child("kind"), *d.Kind, kinds))
	}
	prefix, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *d.Kind == corev1.AzureManagedDisk {
		prefix, form = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(d.DataDiskURI, prefix) {
		errs = append(errs, field.NotSupported(at.Child("diskURI"), d.DataDiskURI, []string{form}))
	}
	return errs
}
