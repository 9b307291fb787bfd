// Package containerlog reads the log files that container runtimes write in CRI's format, one entry
// per line:
//
//	2016-10-06T00:17:09.669794202Z stdout F the content
//
// The tag is F for an entry that ends a line of the container's output, and P for an entry that the
// next entry of the same stream continues.
package containerlog
