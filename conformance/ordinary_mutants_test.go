package conformance_test

const (
	inspectWhole = "Inspect returns the whole TTL"
	readerWhole  = "Inspect returns the whole TTL of a reader's grant"
)

// ordinaryMutants are bugs that an author of a store makes without any contrivance.
var ordinaryMutants = []mutant{
	{inspectWhole, "InspectReturnsHolder"},
	{readerWhole, "InspectReturnsHolder"},
}
