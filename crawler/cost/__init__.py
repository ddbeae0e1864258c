"""What a crawl costs on AWS: counted in the process, priced by a list, modelled before there is a stack."""
