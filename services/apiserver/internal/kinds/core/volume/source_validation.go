package volume

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

// kind is one kind of source: its name in the error about a second one, whether it is set, and its
// check.
type kind struct {
	name  string
	there bool
	check func() field.ErrorList
}

// Source checks that a volume has exactly one source, and checks it. If there are several, errors
// come in Kubernetes' order, in which the first of the list is the valid one.
func Source(s *corev1.PersistentVolumeSpec, name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	for _, k := range sourceKinds(s, name, at) {
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

func sourceKinds(s *corev1.PersistentVolumeSpec, name string, at *field.Path) []kind {
	return []kind{
		{"hostPath", s.HostPath != nil, func() field.ErrorList { return volumesource.HostPath(s.HostPath, at.Child("hostPath")) }},
		{"gcePersistentDisk", s.GCEPersistentDisk != nil, func() field.ErrorList {
			at := at.Child("persistentDisk")
			return append(volumesource.Required(s.GCEPersistentDisk.PDName, at.Child("pdName")), volumesource.Partition(s.GCEPersistentDisk.Partition, at)...)
		}},
		{"awsElasticBlockStore", s.AWSElasticBlockStore != nil, func() field.ErrorList {
			at := at.Child("awsElasticBlockStore")
			return append(volumesource.Required(s.AWSElasticBlockStore.VolumeID, at.Child("volumeID")), volumesource.Partition(s.AWSElasticBlockStore.Partition, at)...)
		}},
		{"glusterfs", s.Glusterfs != nil, func() field.ErrorList { return glusterfs(s.Glusterfs, at.Child("glusterfs")) }},
		{"flocker", s.Flocker != nil, func() field.ErrorList { return volumesource.Flocker(s.Flocker, at.Child("flocker")) }},
		{"nfs", s.NFS != nil, func() field.ErrorList { return volumesource.NFS(s.NFS, at.Child("nfs")) }},
		{"rbd", s.RBD != nil, func() field.ErrorList {
			return append(volumesource.RequiredList(s.RBD.CephMonitors, at.Child("rbd", "monitors")), volumesource.Required(s.RBD.RBDImage, at.Child("rbd", "image"))...)
		}},
		{"quobyte", s.Quobyte != nil, func() field.ErrorList { return volumesource.Quobyte(s.Quobyte, at.Child("quobyte")) }},
		{"cephFS", s.CephFS != nil, func() field.ErrorList {
			return volumesource.RequiredList(s.CephFS.Monitors, at.Child("cephfs", "monitors"))
		}},
		{"iscsi", s.ISCSI != nil, func() field.ErrorList { return iscsi(s.ISCSI, name, at.Child("iscsi")) }},
		{"cinder", s.Cinder != nil, func() field.ErrorList {
			at := at.Child("cinder")
			return append(volumesource.Required(s.Cinder.VolumeID, at.Child("volumeID")), namedSecret(s.Cinder.SecretRef, at.Child("secretRef"))...)
		}},
		{"fc", s.FC != nil, func() field.ErrorList { return volumesource.FibreChannel(s.FC, at.Child("fc")) }},
		{"flexVolume", s.FlexVolume != nil, func() field.ErrorList { return flex(s.FlexVolume, at.Child("flexVolume")) }},
		{"azureFile", s.AzureFile != nil, func() field.ErrorList { return azureFile(s.AzureFile, at.Child("azureFile")) }},
		{"vsphereVolume", s.VsphereVolume != nil, func() field.ErrorList {
			return volumesource.Required(s.VsphereVolume.VolumePath, at.Child("vsphereVolume", "volumePath"))
		}},
		{"photonPersistentDisk", s.PhotonPersistentDisk != nil, func() field.ErrorList {
			return volumesource.Required(s.PhotonPersistentDisk.PdID, at.Child("photonPersistentDisk", "pdID"))
		}},
		{"portworxVolume", s.PortworxVolume != nil, func() field.ErrorList {
			return volumesource.Required(s.PortworxVolume.VolumeID, at.Child("portworxVolume", "volumeID"))
		}},
		{"azureDisk", s.AzureDisk != nil, func() field.ErrorList { return volumesource.AzureDisk(s.AzureDisk, at.Child("azureDisk")) }},
		{"scaleIO", s.ScaleIO != nil, func() field.ErrorList {
			at := at.Child("scaleIO")
			return slices.Concat(volumesource.Required(s.ScaleIO.Gateway, at.Child("gateway")), volumesource.Required(s.ScaleIO.System, at.Child("system")),
				volumesource.Required(s.ScaleIO.VolumeName, at.Child("volumeName")))
		}},
		{"local", s.Local != nil, func() field.ErrorList { return local(s, at) }},
		{"storageos", s.StorageOS != nil, func() field.ErrorList { return storageOS(s.StorageOS, at.Child("storageos")) }},
		{"csi", s.CSI != nil, func() field.ErrorList { return csi(s.CSI, at.Child("csi")) }},
	}
}

func local(s *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	errs := volumesource.Required(s.Local.Path, at.Child("local", "path"))
	if slices.Contains(strings.Split(s.Local.Path, "/"), "..") {
		errs = append(errs, field.Invalid(at.Child("local", "path"), s.Local.Path, "must not contain '..'"))
	}
	if s.NodeAffinity == nil {
		errs = append(errs, field.Required(at.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	return errs
}

func csi(c *corev1.CSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(volumesource.DriverName(c.Driver, at.Child("driver")), volumesource.Required(c.VolumeHandle, at.Child("volumeHandle"))...)
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
		if errs = append(errs, volumesource.Required(secret.ref.Name, at.Child("name"))...); secret.ref.Name != "" {
			errs = append(errs, Subdomain(secret.ref.Name, at.Child("name"))...)
		}
		if errs = append(errs, volumesource.Required(secret.ref.Namespace, at.Child("namespace"))...); secret.ref.Namespace != "" {
			errs = append(errs, volumesource.Label(secret.ref.Namespace, at.Child("namespace"))...)
		}
	}
	return errs
}

func glusterfs(g *corev1.GlusterfsPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(volumesource.Required(g.EndpointsName, at.Child("endpoints")), volumesource.Required(g.Path, at.Child("path"))...)
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

func iscsi(s *corev1.ISCSIPersistentVolumeSource, name string, at *field.Path) field.ErrorList {
	errs := volumesource.Required(s.TargetPortal, at.Child("targetPortal"))
	if s.InitiatorName != nil && len(name+":"+s.TargetPortal) > 64 {
		errs = append(errs, field.Invalid(at.Child("targetportal"), s.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	if s.IQN == "" {
		errs = append(errs, field.Required(at.Child("iqn"), ""))
	} else if !volumesource.QualifiedSCSI(s.IQN) {
		errs = append(errs, field.Invalid(at.Child("iqn"), s.IQN, "must be valid format"))
	}
	if s.Lun < 0 || s.Lun > 255 {
		errs = append(errs, field.Invalid(at.Child("lun"), s.Lun, validation.InclusiveRangeError(0, 255)))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if s.SecretRef != nil {
		errs = append(errs, volumesource.Required(s.SecretRef.Name, at.Child("secretRef", "name"))...)
	}
	if s.InitiatorName != nil && !volumesource.QualifiedSCSI(*s.InitiatorName) {
		errs = append(errs, field.Invalid(at.Child("initiatorname"), *s.InitiatorName, "must be valid format"))
	}
	return errs
}
