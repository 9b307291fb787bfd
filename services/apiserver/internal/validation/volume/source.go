package volume

import (
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/validation/pod"
)

// maxDriverName is the longest name of a CSI driver.
const maxDriverName = 63

// kind is one kind of source: the name in a complaint about a second one, whether it is there,
// and what is wrong with it.
type kind struct {
	name  string
	there bool
	check func() field.ErrorList
}

// source checks that a volume has exactly one source, and that one. The complaints about a
// second source come in Kubernetes' order, in which the first one of the list wins.
func source(s *corev1.PersistentVolumeSpec, name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	for _, k := range kinds(s, name, at) {
		switch {
		case !k.there:
		case found && k.name != "flexVolume":
			errs = append(errs, field.Forbidden(at.Child(k.name), "may not specify more than 1 volume type"))
		default:
			found = true
			errs = append(errs, k.check()...)
		}
	}
	if !found {
		errs = append(errs, field.Required(at, "must specify a volume type"))
	}
	return errs
}

func kinds(s *corev1.PersistentVolumeSpec, name string, at *field.Path) []kind {
	return []kind{
		{"hostPath", s.HostPath != nil, func() field.ErrorList { return pod.HostPath(s.HostPath, at.Child("hostPath")) }},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, func() field.ErrorList {
			at := at.Child("persistentDisk")
			return append(required(s.GCEPersistentDisk.PDName, at.Child("pdName")), partition(s.GCEPersistentDisk.Partition, at)...)
		}},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, func() field.ErrorList {
			at := at.Child("awsElasticBlockStore")
			return append(required(s.AWSElasticBlockStore.VolumeID, at.Child("volumeID")), partition(s.AWSElasticBlockStore.Partition, at)...)
		}},
		{"glusterfs", s.Glusterfs != nil, func() field.ErrorList { return glusterfs(s.Glusterfs, at.Child("glusterfs")) }},
		{"flocker", s.Flocker != nil, func() field.ErrorList { return flocker(s.Flocker, at.Child("flocker")) }},
		{"nfs", s.NFS != nil, func() field.ErrorList { return pod.NFS(s.NFS, at.Child("nfs")) }},
		{"rbd", s.RBD != nil, func() field.ErrorList {
			return append(requiredList(s.RBD.CephMonitors, at.Child("rbd", "monitors")), required(s.RBD.RBDImage, at.Child("rbd", "image"))...)
		}},
		{"quobyte", s.Quobyte != nil, func() field.ErrorList { return quobyte(s.Quobyte, at.Child("quobyte")) }},
		{"cephFS", s.CephFS != nil, func() field.ErrorList { return requiredList(s.CephFS.Monitors, at.Child("cephfs", "monitors")) }},
		{"iscsi", s.ISCSI != nil, func() field.ErrorList { return iscsi(s.ISCSI, name, at.Child("iscsi")) }},
		{"cinder", s.Cinder != nil, func() field.ErrorList {
			at := at.Child("cinder")
			return append(required(s.Cinder.VolumeID, at.Child("volumeID")), namedSecret(s.Cinder.SecretRef, at.Child("secretRef"))...)
		}},
		{"fc", s.FC != nil, func() field.ErrorList { return fibreChannel(s.FC, at.Child("fc")) }},
		{"flexVolume", s.FlexVolume != nil, func() field.ErrorList { return flex(s.FlexVolume, at.Child("flexVolume")) }},
		{"azureFile", s.AzureFile != nil, func() field.ErrorList { return azureFile(s.AzureFile, at.Child("azureFile")) }},
		{"vsphereVolume", s.VsphereVolume != nil, func() field.ErrorList {
			return required(s.VsphereVolume.VolumePath, at.Child("vsphereVolume", "volumePath"))
		}},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, func() field.ErrorList {
			return required(s.PhotonPersistentDisk.PdID, at.Child("photonPersistentDisk", "pdID"))
		}},
		{"portworxVolume", s.PortworxVolume != nil, func() field.ErrorList {
			return required(s.PortworxVolume.VolumeID, at.Child("portworxVolume", "volumeID"))
		}},
		{"azureDisk", s.AzureDisk != nil, func() field.ErrorList { return azureDisk(s.AzureDisk, at.Child("azureDisk")) }},
		{"scaleIO", s.ScaleIO != nil, func() field.ErrorList {
			at := at.Child("scaleIO")
			return slices.Concat(required(s.ScaleIO.Gateway, at.Child("gateway")), required(s.ScaleIO.System, at.Child("system")),
				required(s.ScaleIO.VolumeName, at.Child("volumeName")))
		}},
		{"local", s.Local != nil, func() field.ErrorList { return local(s, at) }},
		{"storageos", s.StorageOS != nil, func() field.ErrorList { return storageOS(s.StorageOS, at.Child("storageos")) }},
		{"csi", s.CSI != nil, func() field.ErrorList { return csi(s.CSI, at.Child("csi")) }},
	}
}

func local(s *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	errs := required(s.Local.Path, at.Child("local", "path"))
	if slices.Contains(strings.Split(s.Local.Path, "/"), "..") {
		errs = append(errs, field.Invalid(at.Child("local", "path"), s.Local.Path, "must not contain '..'"))
	}
	if s.NodeAffinity == nil {
		errs = append(errs, field.Required(at.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	return errs
}

func csi(c *corev1.CSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(driverName(c.Driver, at.Child("driver")), required(c.VolumeHandle, at.Child("volumeHandle"))...)
	for _, secret := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef}, {"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		if secret.ref == nil {
			continue
		}
		at := at.Child(secret.name)
		if errs = append(errs, required(secret.ref.Name, at.Child("name"))...); secret.ref.Name != "" {
			errs = append(errs, subdomain(secret.ref.Name, at.Child("name"))...)
		}
		if errs = append(errs, required(secret.ref.Namespace, at.Child("namespace"))...); secret.ref.Namespace != "" {
			errs = append(errs, label(secret.ref.Namespace, at.Child("namespace"))...)
		}
	}
	return errs
}

// driverName checks the name of a CSI driver.
func driverName(name string, at *field.Path) field.ErrorList {
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

func glusterfs(g *corev1.GlusterfsPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required(g.EndpointsName, at.Child("endpoints")), required(g.Path, at.Child("path"))...)
	at = at.Child("endpointsNamespace")
	switch namespace := g.EndpointsNamespace; {
	case namespace == nil:
	case *namespace == "":
		errs = append(errs, field.Invalid(at, *namespace, "if the endpointnamespace is set, it must be a valid namespace name"))
	default:
		for _, msg := range apivalidation.ValidateNamespaceName(*namespace, false) {
			errs = append(errs, field.Invalid(at, *namespace, msg))
		}
	}
	return errs
}

func flocker(f *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
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

func quobyte(q *corev1.QuobyteVolumeSource, at *field.Path) field.ErrorList {
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
	return append(errs, required(q.Volume, at.Child("volume"))...)
}

func iscsi(s *corev1.ISCSIPersistentVolumeSource, name string, at *field.Path) field.ErrorList {
	errs := required(s.TargetPortal, at.Child("targetPortal"))
	if s.InitiatorName != nil && len(name+":"+s.TargetPortal) > 64 {
		errs = append(errs, field.Invalid(at.Child("targetportal"), s.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if s.IQN == "" {
		errs = append(errs, field.Required(at.Child("iqn"), ""))
	} else if !qualifiedSCSI(s.IQN) {
		errs = append(errs, field.Invalid(at.Child("iqn"), s.IQN, "must be valid format"))
	}
	if s.Lun < 0 || s.Lun > 255 {
		errs = append(errs, field.Invalid(at.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255)))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if s.SecretRef != nil {
		errs = append(errs, required(s.SecretRef.Name, at.Child("secretRef", "name"))...)
	}
	if s.InitiatorName != nil && !qualifiedSCSI(*s.InitiatorName) {
		errs = append(errs, field.Invalid(at.Child("initiatorname"), *s.InitiatorName, "must be valid format"))
	}
	return errs
}

// qualifiedSCSI says whether a name is one of iSCSI's three kinds.
func qualifiedSCSI(name string) bool {
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

func fibreChannel(f *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
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
