// Package attachdetach attaches the volumes of CSI drivers to the nodes of the pods that use them, and
// detaches them when no pod there does (kubernetes, pkg/controller/volume/attachdetach).
//
// It calls no driver. A VolumeAttachment asks the external attacher of a driver for one volume on one node;
// its status answers. Volumes of in-tree plugins belong to the CSI drivers that took the plugins' place.
// Volumes of all other kinds, those of iSCSI and Fibre Channel included, are not attached.
//
// A key is a volume: all nodes of one are reconciled together, so that a volume for one node at a time waits
// until it is detached from the one before. What a node may mount is in its status.volumesAttached. Keys of
// nodes write that list, several volumes at a time. Before a volume is detached, the list must lack it.
//
// What was asked of an attacher, and since when a detach waits for a node to unmount, is kept for one term
// of leadership. A term begins with what the nodes' statuses list as attached; a VolumeAttachment beyond
// that stands for an attachment whose state is uncertain.
package attachdetach
