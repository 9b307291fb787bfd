package volumesource

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPortalName bounds the combined length of a volume's name and its portal.
const maxPortalName = 64

// iscsi validates an iSCSI volume of a pod.
func iscsi(s *corev1.ISCSIVolumeSource, at *field.Path) field.ErrorList {
	errs := Required(s.TargetPortal, at.Child("targetPortal"))
	if s.IQN == "" {
		errs = append(errs, field.Required(at.Child("iqn"), ""))
	} else {
		errs = append(errs, scsiName(s.IQN, at.Child("iqn"))...)
	}
	if s.Lun < 0 || s.Lun > 255 {
		errs = append(errs, field.Invalid(at.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255)))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if s.InitiatorName != nil {
		errs = append(errs, scsiName(*s.InitiatorName, at.Child("initiatorname"))...)
	}
	return errs
}

// iscsiName validates the name of an iSCSI volume: together with the portal it becomes the name of
// an interface.
func iscsiName(s *corev1.ISCSIVolumeSource, name string, at *field.Path) field.ErrorList {
	if s.InitiatorName == nil || len(name+":"+s.TargetPortal) <= maxPortalName {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name,
		"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")}
}

func scsiName(name string, at *field.Path) field.ErrorList {
	if !strings.HasPrefix(name, "iqn") && !strings.HasPrefix(name, "eui") && !strings.HasPrefix(name, "naa") {
		return field.ErrorList{field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa")}
	}
	if !QualifiedSCSI(name) {
		return field.ErrorList{field.Invalid(at, name, "must be valid format")}
	}
	return nil
}

// glusterfs validates a Gluster volume.
func glusterfs(g *corev1.GlusterfsVolumeSource, at *field.Path) field.ErrorList {
	return append(Required(g.EndpointsName, at.Child("endpoints")), Required(g.Path, at.Child("path"))...)
}

// cinder validates a Cinder volume.
func cinder(c *corev1.CinderVolumeSource, at *field.Path) field.ErrorList {
	errs := Required(c.VolumeID, at.Child("volumeID"))
	if c.SecretRef != nil {
		errs = append(errs, Required(c.SecretRef.Name, at.Child("secretRef", "name"))...)
	}
	return errs
}

// Flex validates the driver and the options of a FlexVolume.
func Flex(driver string, options map[string]string, at *field.Path) field.ErrorList {
	errs := Required(driver, at.Child("driver"))
	for _, key := range slices.Sorted(maps.Keys(options)) {
		namespace, _, _ := strings.Cut(key, "/")
		namespace = "." + strings.ToLower(namespace)
		if strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
			errs = append(errs, field.Invalid(at.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

// storageOS validates a StorageOS volume.
func storageOS(s *corev1.StorageOSVolumeSource, at *field.Path) field.ErrorList {
	errs := Required(s.VolumeName, at.Child("volumeName"))
	if s.VolumeName != "" {
		errs = append(errs, Label(s.VolumeName, at.Child("volumeName"))...)
	}
	if s.VolumeNamespace != "" {
		errs = append(errs, Label(s.VolumeNamespace, at.Child("volumeNamespace"))...)
	}
	if s.SecretRef != nil {
		errs = append(errs, Required(s.SecretRef.Name, at.Child("secretRef", "name"))...)
	}
	return errs
}

// csi validates a volume that a CSI driver creates and that lives with its pod.
func csi(c *corev1.CSIVolumeSource, at *field.Path) field.ErrorList {
	errs := DriverName(c.Driver, at.Child("driver"))
	if c.NodePublishSecretRef == nil {
		return errs
	}
	name := c.NodePublishSecretRef.Name
	if name == "" {
		return append(errs, field.Required(at.Child("nodePublishSecretRef", "name"), ""))
	}
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(at.Child("name"), name, msg))
	}
	return errs
}
